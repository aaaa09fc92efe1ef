from dbt_lakehouse.cli import main

if __name__ == "__main__":
    main()
